//! Messages a server sends, one file a message or a family of them.
//!
//! On the hot path nobody looks inside; what is needed is parsed from the body
//! the [`Scanner`](crate::Scanner) hands out.

mod authentication;
mod backend_key_data;
mod command_complete;
mod data_row;
mod error_fields;
mod parameter_description;
mod parameter_status;
mod ready_for_query;
mod row_description;

pub use authentication::Authentication;
pub use backend_key_data::BackendKeyData;
pub use command_complete::CommandComplete;
pub use data_row::DataRow;
pub use error_fields::ErrorFields;
pub use parameter_description::ParameterDescription;
pub use parameter_status::ParameterStatus;
pub use ready_for_query::TransactionStatus;
pub use row_description::{Column, RowDescription};

use crate::TagSet;

/// Type of an authentication request, and of its success.
pub const AUTHENTICATION: u8 = b'R';
/// Type of BackendKeyData.
pub const BACKEND_KEY_DATA: u8 = b'K';
/// Type of BindComplete.
pub const BIND_COMPLETE: u8 = b'2';
/// Type of CloseComplete.
pub const CLOSE_COMPLETE: u8 = b'3';
/// Type of CommandComplete.
pub const COMMAND_COMPLETE: u8 = b'C';
/// Type of CopyInResponse.
pub const COPY_IN_RESPONSE: u8 = b'G';
/// Type of CopyOutResponse.
pub const COPY_OUT_RESPONSE: u8 = b'H';
/// Type of CopyBothResponse.
pub const COPY_BOTH_RESPONSE: u8 = b'W';
/// Type of DataRow.
pub const DATA_ROW: u8 = b'D';
/// Type of EmptyQueryResponse.
pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
/// Type of ErrorResponse.
pub const ERROR_RESPONSE: u8 = b'E';
/// Type of NegotiateProtocolVersion.
pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
/// Type of NoData.
pub const NO_DATA: u8 = b'n';
/// Type of NoticeResponse.
pub const NOTICE_RESPONSE: u8 = b'N';
/// Type of NotificationResponse.
pub const NOTIFICATION_RESPONSE: u8 = b'A';
/// Type of ParameterDescription.
pub const PARAMETER_DESCRIPTION: u8 = b't';
/// Type of ParameterStatus.
pub const PARAMETER_STATUS: u8 = b'S';
/// Type of ParseComplete.
pub const PARSE_COMPLETE: u8 = b'1';
/// Type of PortalSuspended.
pub const PORTAL_SUSPENDED: u8 = b's';
/// Type of ReadyForQuery.
pub const READY_FOR_QUERY: u8 = b'Z';
/// Type of RowDescription.
pub const ROW_DESCRIPTION: u8 = b'T';

/// Every type byte a server may send.
pub const TAGS: TagSet = TagSet::of(b"123ACDEGHIKNRSTVWZcdnstv");

#[cfg(test)]
mod tests;
