//! Groups: their ids, which name no tenant, and who is in them.
