// Package auth knows who may do what: people with passwords and sessions, devices with API keys, and programs on the
// box with the local token. It keeps the audit log.
//
// Secrets are kept as hashes: passwords with argon2id, sessions and keys, which are random, with SHA-256. What is
// limited is limited here: tries to log in, tries to claim, requests of a key.
package auth
