import threading
import time

threading.Thread(target=lambda: (time.sleep(0.1), print("late"))).start()
print("early")
