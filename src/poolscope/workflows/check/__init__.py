"""Does an implementation keep its ε?"""
