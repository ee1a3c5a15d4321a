//! Rows of a batch, put together before they are sent in one statement.

use walwright_workload::script::{BatchForm, EvalError, Gathered, Slot, Variables};

/// The rows gathered so far by the client whose turn it is: a batch waits for nothing while it
/// is put together, so one buffer serves all clients of a thread.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Values as Bind has them, or rows as COPY does.
    bytes: Vec<u8>,
    /// A list in the text form of an array for each column.
    arrays: Vec<Vec<u8>>,
    value: Vec<u8>,
    /// The values of one row, for a coalescer.
    row: Vec<Option<String>>,
}

impl Rows {
    /// Adds a row of these variables' values.
    ///
    /// # Errors
    /// When one of them has no value.
    pub(crate) fn add(
        &mut self,
        form: BatchForm,
        slots: &[Slot],
        variables: &Variables,
    ) -> Result<(), EvalError> {
        self.arrays.resize_with(self.arrays.len().max(slots.len()), Vec::new);
        for (place, slot) in slots.iter().enumerate() {
            let value = variables.get(*slot).ok_or(EvalError::Undefined(*slot))?;
            self.value.clear();
            let text = (!value.is_null()).then(|| {
                value.write_text(&mut self.value);
                &*self.value
            });
            match form {
                BatchForm::Coalesce => {
                    self.row.push(text.map(|text| String::from_utf8_lossy(text).into_owned()));
                }
                BatchForm::Unnest => array_element(text, &mut self.arrays[place]),
                BatchForm::Copy => {
                    if place > 0 {
                        self.bytes.push(b'\t');
                    }
                    copy_value(text, &mut self.bytes);
                }
                _ => sized(text, &mut self.bytes),
            }
        }
        if form == BatchForm::Copy {
            self.bytes.push(b'\n');
        }
        Ok(())
    }

    /// The parameters of the statement that these rows go with, and how many there are.
    pub(crate) fn parameters(&mut self, of: &Gathered) -> usize {
        if of.form == BatchForm::Values {
            return (of.rows * of.columns) as usize;
        }
        for array in &mut self.arrays[..of.columns as usize] {
            if array.is_empty() {
                array.push(b'{');
            }
            array.push(b'}');
            sized(Some(array), &mut self.bytes);
        }
        of.columns as usize
    }

    /// The row that goes to a coalescer.
    pub(crate) fn take_row(&mut self) -> Vec<Option<String>> {
        std::mem::take(&mut self.row)
    }

    /// What was put together: parameters, or what is copied.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(LARGEST_KEPT);
        self.row.clear();
        for array in &mut self.arrays {
            array.clear();
            array.shrink_to(LARGEST_KEPT);
        }
    }
}

/// Memory kept from one batch to the next, of each buffer.
const LARGEST_KEPT: usize = 1024 * 1024;

/// A value as Bind has it.
fn sized(value: Option<&[u8]>, out: &mut Vec<u8>) {
    let length = value.map_or(-1, |value| value.len() as i32);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value.unwrap_or_default());
}

/// A value in the text format of COPY.
fn copy_value(value: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(value) = value else { return out.extend_from_slice(b"\\N") };
    for byte in value {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => out.push(*byte),
        }
    }
}

/// A value as the next element of an array, quoted whatever it is.
fn array_element(value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(if out.is_empty() { b'{' } else { b',' });
    let Some(value) = value else { return out.extend_from_slice(b"NULL") };
    out.push(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use walwright_workload::script::{ClientStart, Program, ScriptSource, Value};

    use super::*;

    /// The rows `(x, NULL)` and `(y, 7)` in one form, x and y being hard to write.
    fn gathered(form: BatchForm) -> (usize, Vec<u8>) {
        let text = "\\set a 1\n\\set b 1\nSELECT :a, :b;".to_owned();
        let source = ScriptSource { name: "test".into(), text, weight: 1 };
        let program = Program::compile(&[source], &[]).unwrap();
        let start = ClientStart { client_id: 0, scale: 1, random_seed: 0, default_seed: 0 };
        let mut variables = program.variables(&start);
        let slots = [program.slot("a").unwrap(), program.slot("b").unwrap()];
        let mut rows = Rows::default();
        for (a, b) in [("\"\\", Value::Null), ("a\tb", Value::Int(7))] {
            variables.set(slots[0], a.into());
            variables.set(slots[1], b);
            rows.add(form, &slots, &variables).unwrap();
        }
        let parameters = match form {
            BatchForm::Copy => 0,
            _ => rows.parameters(&Gathered {
                form,
                rows: 2,
                columns: 2,
                table: String::new(),
                names: Vec::new(),
            }),
        };
        (parameters, rows.bytes().to_vec())
    }

    #[test]
    fn rows_are_written_in_every_form() {
        let (parameters, values) = gathered(BatchForm::Values);
        assert_eq!(parameters, 4);
        let expected: &[u8] = b"\0\0\0\x02\"\\\xff\xff\xff\xff\0\0\0\x03a\tb\0\0\0\x017";
        assert_eq!(values, expected);
        let (parameters, arrays) = gathered(BatchForm::Unnest);
        assert_eq!(parameters, 2);
        let a = b"{\"\\\"\\\\\",\"a\tb\"}";
        let b = b"{NULL,\"7\"}";
        let sized = |of: &[u8]| [&(of.len() as u32).to_be_bytes()[..], of].concat();
        assert_eq!(arrays, [sized(a), sized(b)].concat());
        let (_, copied) = gathered(BatchForm::Copy);
        assert_eq!(copied, b"\"\\\\\t\\N\na\\tb\t7\n");
    }

    #[test]
    fn a_row_of_what_has_no_value_is_refused() {
        let text = "SELECT :b;\nSELECT 1 AS b \\gset\n".to_owned();
        let source = ScriptSource { name: "test".into(), text, weight: 1 };
        let program = Program::compile(&[source], &[]).unwrap();
        let slot = program.slot("b").unwrap();
        let variables = Variables::new(program.slot_count());
        let added = Rows::default().add(BatchForm::Copy, &[slot], &variables);
        assert_eq!(added, Err(EvalError::Undefined(slot)));
    }
}
