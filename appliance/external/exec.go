package external

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

// Bounds of what a process may ask of other models.
const (
	maxExecs    = 256 // requests at the same time
	maxDepth    = 8   // models that wait for each other
	maxControls = 16  // loads and unloads at the same time
)

// asking is a request of a process to another model.
type asking struct {
	drop context.CancelFunc // the process asks for no further responses
	end  context.CancelFunc // nobody reads them
}

// Exec asks another model.
func (p *process) Exec(x *backend.Exec, inputs []edgewise.Tensor, taken func()) {
	ctx, l, callers, refusal := p.behalf(x)
	ctx, end := context.WithCancel(ctx)
	stop, drop := context.WithCancel(ctx)
	if !x.Decoupled { // its one response comes, or nobody reads it
		drop = end
	}
	p.mu.Lock()
	if refusal == "" && len(p.execs) >= maxExecs {
		refusal = "more than " + strconv.Itoa(maxExecs) + " requests to other models are open"
	}
	p.execs[x.Exec] = asking{drop, end}
	p.mu.Unlock()
	go func() {
		defer func() {
			drop()
			end()
			p.mu.Lock()
			delete(p.execs, x.Exec)
			p.mu.Unlock()
		}()
		if refusal != "" {
			taken()
			p.reply(x, nil, edgewise.Errorf("external.Exec", edgewise.Invalid, "model %q: %s", x.Model, refusal))
			return
		}
		p.ask(ctx, stop, l, x, inputs, callers, taken)
	}()
}

// behalf finds out for whom a process asks another model, and why it may not.
func (p *process) behalf(x *backend.Exec) (ctx context.Context, l *lending, callers []string, refusal string) {
	ctx, l = context.Background(), &lending{settled: true}
	if call, ok := p.client.Call(x.Call); ok {
		own := call.Owner.(*exchange)
		ctx, l, callers = own.call.Context, own.lending, own.call.Request.Callers
		if own.call.Request.Trial {
			return ctx, l, callers, "this is a trial with made-up inputs: it calls no other model"
		}
	}
	switch {
	case p.task.Infer == nil:
		refusal = "there is no other model here"
	case x.Model == p.task.id.Name || slices.Contains(callers, x.Model):
		refusal = "it waits for this answer already: models cannot call each other in a circle"
	case len(callers) >= maxDepth:
		refusal = "more than " + strconv.Itoa(maxDepth) + " models call each other"
	}
	return ctx, l, append(slices.Clip(callers), p.task.id.Name), refusal
}

// Drop asks another model for no further responses. Those that come nevertheless are sent on, as in Triton.
func (p *process) Drop(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x, ok := p.execs[number]; ok {
		x.drop()
	}
}

// ask asks another model and sends its responses back. stop ends when the process wants no more of them.
func (p *process) ask(
	ctx, stop context.Context, l *lending, x *backend.Exec, inputs []edgewise.Tensor, callers []string, taken func(),
) {
	req := &edgewise.Request{
		ID: x.ID, Model: edgewise.ModelID{Name: x.Model, Version: max(x.Version, 0)}, Inputs: inputs, Outputs: x.Wanted,
		Parameters: x.Parameters, Priority: x.Priority, Timeout: x.Timeout, Callers: callers, Arrived: time.Now(),
		Sequence: edgewise.Sequence{
			ID: x.Correlation, Name: x.CorrelationText, Start: x.Flags&backend.SequenceStart != 0,
			End: x.Flags&backend.SequenceEnd != 0,
		},
	}
	if x.Decoupled {
		req.Each, req.Stop = func(r *edgewise.Response) error { return p.part(ctx, x, r) }, stop
	}
	resume := l.begin()
	resp, err := p.task.Infer.Infer(ctx, req)
	resume()
	taken()
	p.reply(x, resp, err)
}

// part sends a response that is not the last one.
func (p *process) part(ctx context.Context, x *backend.Exec, r *edgewise.Response) error {
	defer r.Release()
	reply := &backend.Reply{Exec: x.Exec, Model: r.Model.Name, Version: r.Model.Version}
	reply.Error, reply.Parameters = backend.ErrorOf(r.Fault), r.Parameters
	return p.client.Reply(ctx, reply, r.Outputs)
}

// reply sends the last response. One that does not fit is an error.
func (p *process) reply(x *backend.Exec, resp *edgewise.Response, err error) {
	defer resp.Release()
	reply := &backend.Reply{Exec: x.Exec, Model: x.Model, Version: x.Version}
	reply.Final = true
	var outputs []edgewise.Tensor
	if err != nil {
		reply.Error = backend.ErrorOf(err)
	} else {
		reply.Model, reply.Version, reply.Parameters = resp.Model.Name, resp.Model.Version, resp.Parameters
		reply.Empty, outputs = resp.Empty, resp.Outputs
	}
	ctx := context.Background() // the end of the process ends it
	if err := p.client.Reply(ctx, reply, outputs); tooLarge(err) {
		reply.Error, reply.Parameters = backend.ErrorOf(edgewise.Errorf("external.Exec", edgewise.TooLarge, "%w", err)), nil
		_ = p.client.Reply(ctx, reply, nil)
	}
}

// Control loads or unloads a model, or says whether one is ready.
func (p *process) Control(id uint64, c *backend.Control) {
	p.mu.Lock()
	p.controls++
	many := p.controls > maxControls
	p.mu.Unlock()
	go func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.controls--
		}()
		answer := &backend.ControlAnswer{}
		switch {
		case p.task.Backend.Control == nil:
			answer.Error = &backend.Error{Code: backend.Unsupported, Message: "models cannot be loaded here"}
		case many:
			answer.Error = &backend.Error{Code: backend.Unavailable, Message: "too many models are being loaded"}
		default:
			answer.Ready, answer.Error = p.control(c)
		}
		_ = p.client.Answer(id, answer)
	}()
}

func (p *process) control(c *backend.Control) (ready bool, failure *backend.Error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.task.manifest.LoadTimeout)
	defer cancel()
	control := p.task.Backend.Control
	switch {
	case c.Load != "":
		var o edgewise.LoadOverride
		if c.Config != "" {
			if !json.Valid([]byte(c.Config)) {
				return false, &backend.Error{Code: backend.InvalidArg, Message: "the configuration is no JSON"}
			}
			o.Config = []byte(c.Config)
		}
		for path, content := range c.Files {
			if o.Files == nil {
				o.Files = map[string][]byte{}
			}
			o.Files[strings.TrimPrefix(path, "file:")] = content
		}
		return false, backend.ErrorOf(control.Load(ctx, c.Load, o))
	case c.Unload != "":
		return false, backend.ErrorOf(control.Unload(ctx, c.Unload, c.UnloadDependents))
	case c.Ready != "":
		id := edgewise.ModelID{Name: c.Ready}
		if c.Version != "" && c.Version != "-1" {
			n, err := strconv.ParseInt(c.Version, 10, 64)
			if err != nil || n < 1 {
				return false, &backend.Error{Code: backend.InvalidArg, Message: "version " + strconv.Quote(c.Version)}
			}
			id.Version = n
		}
		return control.VersionReady(id) == nil, nil
	}
	return false, &backend.Error{Code: backend.InvalidArg, Message: "neither load, unload nor ready is asked for"}
}
