//! walwright-diagnose
