//! OpenCloud's own access tokens (reva's): HS256 with a shared secret.
