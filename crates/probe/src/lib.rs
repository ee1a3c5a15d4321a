//! walwright-probe
