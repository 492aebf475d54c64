// Package ensemble is the room for ensembles: models and steps chained into one model. It is still empty; a model with
// platform "ensemble" is refused with that reason.
package ensemble
