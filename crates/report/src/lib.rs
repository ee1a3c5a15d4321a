//! walwright-report
