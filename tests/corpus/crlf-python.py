import sys
if sys.argv[1:] == []:
    print("crlf")
