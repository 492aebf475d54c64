// Package wire reads and writes the two messages of the gRPC protocol that carry tensors, without making the generated
// message of them: the bytes of a tensor stay where the message came in, and go out from where the runtime put them.
//
// What it reads it reads as the generated code would: unknown fields are skipped, the last of several values of a field
// counts, repeated numbers may be packed or not. A fuzz test holds the two against each other.
package wire
