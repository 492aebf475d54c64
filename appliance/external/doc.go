// Package external is the backend of models that programs of other people serve: each instance of a version has a
// process, which speaks the protocol of docs/backends.md. A folder with a backend.yaml says how such a process is started
// and what it may do (decision 0086).
//
// A process that breaks the protocol, uses more than it may, does not answer or dies costs its model one second and no
// other model anything.
package external
