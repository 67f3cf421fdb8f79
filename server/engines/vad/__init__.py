"""Voice activity: is somebody speaking?"""
