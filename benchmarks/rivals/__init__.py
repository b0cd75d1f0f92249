"""Other ways to move rows from one database to another, as a user would write them.

Each module is one way. What lies between its marks is what a user writes and is counted; the tables of the application
and the program that commits are the same for all and are not. These programs run in a virtual environment of their own
(`benchmarks.rival_packages`), so they import nothing of Mercury.
"""
