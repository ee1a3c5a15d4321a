//! What every measuring command shares.
