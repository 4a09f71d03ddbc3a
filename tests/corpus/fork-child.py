import os
import time

if os.fork() == 0:
    time.sleep(300)
print("parent")
