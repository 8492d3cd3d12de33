"""Does an implementation keep its epsilon?"""
