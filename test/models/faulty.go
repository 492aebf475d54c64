package models

import (
	"strings"
	"testing"
)

// Faulty is an ensemble of every kind of fault; "a" and "b" have the input "in" and the output "out", both BYTES.
const Faulty = `{"platform": "ensemble",
 "input": [{"name": "in", "data_type": "TYPE_INT64", "dims": [1]}],
 "output": [{"name": "out", "data_type": "TYPE_STRING", "dims": [1]}, {"name": "late", "dims": [1]}],
 "ensemble_scheduling": {"step": [
  {"model_name": "a", "model_version": -1, "input_map": {"in": "in"}, "output_map": {"out": "out"}},
  {"model_name": "dog", "model_version": -1, "input_map": {"in": "out"}, "output_map": {"out": "late"}},
  {"model_name": "b", "model_version": -1, "input_map": {"wrong": "second"}, "output_map": {"out": "first"}},
  {"model_name": "b", "model_version": -1, "input_map": {"in": "first"}, "output_map": {"out": "second"}}]}}`

// Faults are what is to be said about it, but for the model that is missing.
var Faults = []string{
	`output "late": data_type is missing`,
	"tensor 'in': the ensemble takes it of type INT64, but step 0 (model 'a') takes it as input 'in' of type BYTES",
	"step 2 (model 'b'): input_map names input 'wrong', which the model does not have",
	"step 2 (model 'b'): input 'in' of the model is missing in input_map",
	"steps wait for each other in a circle",
}

// WantFaults checks that a text says all that is wrong with Faulty, and more.
func WantFaults(t *testing.T, text string, more ...string) {
	t.Helper()
	for _, want := range append(more, Faults...) {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s\nin: %s", want, text)
		}
	}
}
