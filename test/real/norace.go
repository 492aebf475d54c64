//go:build !race

package real

// raceDetector tells whether this program has the race detector.
const raceDetector = false
