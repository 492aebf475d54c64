package conformance

import "github.com/edgewise-ai/edgewise"

// checks are the rules, in the order in which they are checked.
var checks = []check{
	{"start.ready", "START is answered with READY, and STOP with the end of the process", fresh, startReady},
	{"start.version", "a START of a version that the backend does not speak is refused", fresh, startVersion},
	{"start.describe", "after READY to a START with describe the process ends", fresh, startDescribe},
	{"end.socket", "the process ends when the socket is closed", fresh, endSocket},
	{"run.echo", "numbers come back as they were sent", plain, echo(edgewise.Shape{1, 3})},
	{"run.empty", "a tensor without elements has no bytes and no block", plain, echo(edgewise.Shape{1, 0})},
	{"run.large", "a tensor of 8 MiB comes back as it was sent", plain, echo(edgewise.Shape{1, 2 << 20})},
	{"run.strings", "strings of any bytes come back as they were sent", plain, runStrings},
	{"run.batch", "each request of a batch of eight gets its own answer", plain, runBatch},
	{"run.wanted", "outputs that are not wanted are left out", plain, runWanted},
	{"run.parameters", "parameters keep their types, and the head of a request arrives", plain, runParameters},
	{"run.error", "an error answers one request of a batch, with its code and message", plain, runError},
	{"run.memory", "input and output memory are used again", plain, runMemory},
	{"run.full", "outputs that do not fit into the output memory are an error of their request", plain, runFull},
	{"run.cancel", "a request that is cancelled while it runs ends soon", plain, runCancel},
	{"ping.busy", "PING is answered while a request runs", plain, pingBusy},
	{"exec.one", "a request to another model gets its answer", plain, execOne},
	{"exec.error", "an error of another model reaches the one who asked", plain, execError},
	{"exec.call", "a request to another model names the call that it is made for", plain, execCall},
	{"log", "a line of the log arrives with its text", plain, logLine},
	{"metric", "a metric of the model arrives with its value", plain, metric},
	{"stream.none", "a request may have no response but the final one", decoupled, streamNone},
	{"stream.order", "ten thousand responses arrive in order", decoupled, streamOrder},
	{"stream.pressure", "sixty-four responses are sent at most before one is taken", decoupled, streamPressure},
	{"stream.open", "another batch runs while a request is open", decoupled, streamOpen},
	{"stream.cancel", "a stream whose client reads nothing ends when it is cancelled", decoupled, streamCancel},
	{"stream.exec", "many responses of another model arrive in order", decoupled, streamExec},
}
