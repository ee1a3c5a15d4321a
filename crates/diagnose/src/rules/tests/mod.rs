//! Rules on built records.
