// Package edgewise holds the words that every part of the appliance shares, and nothing that runs.
//
// In one sentence: everything a client can call is a [Model]; everything that runs a model is a
// [Servable]; every folder knows the words in this package and nothing else; only package appliance knows everybody.
//
// The words:
//
//   - Tensor: a named, typed, dense block of bytes. Spec: what a tensor must look like.
//   - Model: what its author declares, in the field names of Triton's ModelConfig.
//   - Version: one immutable upload of a model: its declaration, its files, one digest over both.
//   - Label: a movable name for a version. The label "live" answers requests that name no version.
//   - Backend: loads versions of one platform. Inspection: what a backend reads out of files without loading them.
//   - Instance: a loaded version, ready to run. Device: where it runs.
//   - Scheduler: the queue in front of an instance. Lane: one goroutine of it, locked to its thread.
//   - Servable: a version that answers requests; what the manager hands out.
//   - Request, Response: one inference, in and out.
//
// - Sequence: requests that belong together and run in order. State: what one of them leaves behind for the next. Slot:
// a
//
//	  place for a sequence in an instance. Backlog: sequences that wait for one. Sequencer: a Servable that keeps sequences.
//	- Step: a model inside an ensemble, which is a model made of models. Pin: the exact version that a step runs.
//	- Status: what the box says about a version. Statistics: what it has measured about one.
//	- Kind: the one classification of errors, which only the frontends turn into protocol codes.
package edgewise
