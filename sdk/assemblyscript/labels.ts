// Names for classes, from the parameter "labels": one a line.

import { parameter } from "./host";

// The lines of the parameter, empty where it is not set.
export function readLabels(): string[] {
  const text = parameter("labels");
  return text == null ? [] : text.split("\n");
}

// The name of class n, its number where it has none.
export function label(labels: string[], n: i32): string {
  return n >= 0 && n < labels.length && labels[n] != "" ? labels[n] : n.toString();
}
