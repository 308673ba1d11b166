"""Mail servers over SMTP.

May import `base`, `services` and `adapters.http`; aiosmtplib is imported by the first message.
"""
