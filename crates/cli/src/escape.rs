//! Other people's text in messages and on pages.

/// Bytes as text that no terminal takes for more: control characters and what is not UTF-8 are escaped.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                text.extend(character.escape_default())
            } else {
                text.push(character)
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}
