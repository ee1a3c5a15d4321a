//! walwright-lab
