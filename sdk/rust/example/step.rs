//! The worked example: scores of classes in, the likeliest classes with their labels out.

use edgewise::{List, Outputs, Result};

const DESCRIPTION: &str = r#"{
  "name": "classify", "version": "1.0.0", "description": "softmax, the k likeliest classes and their labels",
  "inputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, -1]}],
  "outputs": [
    {"name": "label", "datatype": "BYTES", "shape": [-1, -1]},
    {"name": "probability", "datatype": "FP32", "shape": [-1, -1]},
    {"name": "class", "datatype": "INT32", "shape": [-1, -1]}],
  "parameters": [
    {"name": "k", "default": "5", "description": "classes to return"},
    {"name": "labels", "description": "one label a line; a class without one is called by its number"}]
}"#;

/// Returns the k likeliest classes of each row of scores.
fn classify(inputs: &List) -> Result<Outputs> {
    let scores = inputs.get::<f32>("scores")?;
    let k: usize = edgewise::number_parameter("k", 5, 1, 1000)?;
    let classes = match scores.shape() {
        [_, classes] => *classes as usize,
        other => return Err(format!("input \"scores\" has {} dimensions: want [rows, classes]", other.len()).into()),
    };
    let k = k.min(classes);
    let text = edgewise::parameter("labels").unwrap_or_default();
    let labels: Vec<&str> = text.split('\n').collect();

    let (mut names, mut probability, mut class) = (Vec::new(), Vec::new(), Vec::new());
    for row in scores.values().chunks(classes.max(1)) {
        let row = softmax(row);
        for c in best(&row, k) {
            names.push(label(&labels, c));
            probability.push(row[c]);
            class.push(c as i32);
        }
    }
    let shape = [scores.shape()[0], k as i64];
    let mut outputs = Outputs::new();
    outputs.push_bytes("label", &shape, &names);
    outputs.push("probability", &shape, probability);
    outputs.push("class", &shape, class);
    Ok(outputs)
}

/// The probabilities of a row of scores.
fn softmax(row: &[f32]) -> Vec<f32> {
    let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut values: Vec<f32> = row.iter().map(|v| (v - highest).exp()).collect();
    let sum: f32 = values.iter().sum();
    values.iter_mut().for_each(|v| *v /= sum);
    values
}

/// The k classes of the largest values, the largest first, of equal ones the lower class first.
fn best(row: &[f32], k: usize) -> Vec<usize> {
    let mut classes: Vec<usize> = (0..row.len()).collect();
    classes.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
    classes.truncate(k);
    classes
}

/// The name of a class, its number where it has none.
fn label(labels: &[&str], class: usize) -> String {
    match labels.get(class) {
        Some(name) if !name.is_empty() => name.to_string(),
        _ => class.to_string(),
    }
}

edgewise::step!(classify, DESCRIPTION);
