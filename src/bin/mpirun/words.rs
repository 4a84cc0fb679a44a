//! The words of a line, and of a file of programs.

/// The words of a configuration file, programs separated by `:`.
///
/// # Errors
/// A quote that is not closed.
pub fn programs(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if !words.is_empty() {
            words.push(":".to_string());
        }
        words.extend(split(line)?);
    }
    Ok(words)
}

/// The words of a line as a shell sees them: quotes and backslashes, nothing more.
///
/// # Errors
/// A quote that is not closed.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(q), l) if l == q => quote = None,
            (Some('\''), l) => word.get_or_insert_default().push(l),
            (_, '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, l) if l.is_whitespace() => words.extend(word.take()),
            (_, l) => word.get_or_insert_default().push(l),
        }
    }
    words.extend(word);
    match quote {
        Some(_) => Err(format!("a quote is not closed: {line}")),
        None => Ok(words),
    }
}
