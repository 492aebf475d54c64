// Package proposal reads a model's signature and says which pipelines of the gallery's steps could make it useful: a
// picture or a sound in, an answer that a person reads out. It proposes and never decides: where two fit, it says both,
// each with what speaks for it.
package proposal
