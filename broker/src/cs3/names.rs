//! Names that are unique over the instance, as OpenCloud needs them.
