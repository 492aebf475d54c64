// Package activity keeps the recent activity of the appliance in bounded memory: log lines, requests, and the request
// rates and latencies of each version over the last hour. It publishes events to listeners.
package activity
