"""The verdict benchmark: is the lab's verdict right, and where do other criteria err?"""
