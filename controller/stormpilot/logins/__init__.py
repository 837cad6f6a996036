"""Logins of others, by SASL: read from the JAAS files that Storm has already, and used with Nimbus."""
