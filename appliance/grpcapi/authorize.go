package grpcapi

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// authorizationKey is the metadata that carries an API key, as "Bearer ek_...".
const authorizationKey = "authorization"

// method describes a call of the inference service, as a route describes a request of REST.
type method struct {
	api    string          // the group of APIs that it belongs to, by Triton's name
	rights edgewise.Rights // of which the caller needs one; 0: everybody may call it. needOf: what its message needs
	action string          // the name in the audit log of what the method changes; empty: nothing
}

// use are the rights to look at a model to run it.
const use = edgewise.Read | edgewise.Infer

// methods are those of the inference service.
var methods = map[string]method{
	"ServerLive":                   {api: "health"},
	"ServerReady":                  {api: "health"},
	"ModelReady":                   {"health", use, ""},
	"ServerMetadata":               {"metadata", use, ""},
	"ModelMetadata":                {"metadata", use, ""},
	"ModelConfig":                  {"model-config", use, ""},
	"ModelStatistics":              {"statistics", use, ""},
	"ModelInfer":                   {"inference", edgewise.Infer, ""},
	"ModelStreamInfer":             {"inference", edgewise.Infer, ""},
	"SystemSharedMemoryStatus":     {"shared-memory", edgewise.Infer, ""},
	"SystemSharedMemoryRegister":   {"shared-memory", edgewise.Infer, ""},
	"SystemSharedMemoryUnregister": {"shared-memory", edgewise.Infer, ""},
	"CudaSharedMemoryStatus":       {"shared-memory", edgewise.Infer, ""},
	"CudaSharedMemoryRegister":     {"shared-memory", edgewise.Infer, ""},
	"CudaSharedMemoryUnregister":   {"shared-memory", edgewise.Infer, ""},
	"RepositoryIndex":              {"model-repository", edgewise.Read, ""},
	"RepositoryModelLoad":          {"model-repository", edgewise.Operate, "model.load"},
	"RepositoryModelUnload":        {"model-repository", edgewise.Operate, "model.unload"},
	"TraceSetting":                 {"trace", edgewise.Read | edgewise.Operate, "tracing.change"},
	"LogSettings":                  {"logging", edgewise.Read | edgewise.Admin, "logging.change"},
}

// methodOf returns the description of a method by its full name. Health checks and reflection are open to everybody; a
// method that is not in the table needs the right admin.
func methodOf(full string) method {
	service, name, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	switch {
	case service == "grpc.health.v1.Health":
		return method{api: "health"}
	case strings.HasPrefix(service, "grpc.reflection."):
		return method{}
	}
	if m, ok := methods[name]; ok {
		return m
	}
	return method{rights: edgewise.Admin}
}

// authorize authorizes a call from its metadata, and returns a context that carries the caller.
func (s *Server) authorize(ctx context.Context, info *tap.Info) (context.Context, error) {
	need := methodOf(info.FullMethodName).rights
	if s.deps.Authorize == nil || need == 0 {
		return ctx, nil
	}
	secret, err := bearer(info.Header)
	if err != nil {
		return ctx, err
	}
	streams := info.FullMethodName == inference.GRPCInferenceService_ModelStreamInfer_FullMethodName
	call, caller, err := s.enter(ctx, secret, s.client(ctx, info.Header), streams)
	if err != nil {
		return ctx, err
	}
	if caller.Rights&need == 0 {
		leave(call) // the transport does not end the context of a call that is refused here
		return ctx, lacking("grpcapi.authorize", caller, need)
	}
	return call, nil
}

// lacking makes the error about a missing right.
func lacking(op string, who *edgewise.Principal, need edgewise.Rights) error {
	return edgewise.Errorf(op, edgewise.Denied, "%s may not do this: it needs the right %s", who.Actor(),
		strings.Join(need.Names(), " or "))
}

func bearer(header metadata.MD) (string, error) {
	values := header.Get(authorizationKey)
	if len(values) == 0 {
		return "", edgewise.Errorf("grpcapi.bearer", edgewise.Unauthenticated,
			"this needs an API key, in the metadata authorization: Bearer ek_...")
	}
	kind, secret, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(kind, "Bearer") {
		return "", edgewise.Errorf("grpcapi.bearer", edgewise.Unauthenticated,
			"authorization of the kind %.20q is not accepted: want Bearer and an API key", kind)
	}
	return strings.TrimSpace(secret), nil
}

// mayName refuses a model to a caller whose key is bound to other models.
func mayName(ctx context.Context, model string) error {
	who := edgewise.PrincipalOf(ctx)
	if who == nil || who.MayName(model) {
		return nil
	}
	return edgewise.Errorf("grpcapi.mayName", edgewise.Denied, "%s is bound to the models %s", who.Actor(),
		strings.Join(who.Models, ", "))
}

// mayAsk authorizes a message: its settings, and the model that it names.
func mayAsk(ctx context.Context, method string, message any) error {
	if edgewise.PrincipalOf(ctx) == nil || strings.HasSuffix(method, "/ServerMetadata") {
		return nil
	}
	if need := needOf(method, message); need != 0 && edgewise.PrincipalOf(ctx).Rights&need == 0 {
		return lacking("grpcapi.mayAsk", edgewise.PrincipalOf(ctx), need)
	}
	switch m := message.(type) {
	case interface{ GetModelName() string }:
		return mayName(ctx, m.GetModelName())
	case *received: // the model of an inference is known when its message has been parsed
		return nil
	case interface{ GetName() string }:
		return mayName(ctx, m.GetName())
	}
	return mayName(ctx, "")
}

// needOf returns the rights of which a message needs one, where messages of its method differ in that; 0 where the
// rights of the method say it all.
func needOf(method string, message any) edgewise.Rights {
	if m, ok := message.(*inference.ModelStatisticsRequest); ok && m.GetName() == "" { // of all models
		return edgewise.Read
	}
	switch settings, changes := settingsOf(message); {
	case !settings:
		return 0
	case changes:
		return methodOf(method).rights &^ edgewise.Read
	}
	return edgewise.Read
}

// settingsOf tells whether a message is about settings, and whether it changes any.
func settingsOf(message any) (settings, changes bool) {
	switch m := message.(type) {
	case *inference.TraceSettingRequest:
		return true, len(m.GetSettings()) > 0
	case *inference.LogSettingsRequest:
		return true, len(m.GetSettings()) > 0
	}
	return false, false
}

// record writes a line to the audit log about a call that changed something, or tried to.
func (s *Server) record(ctx context.Context, method string, message any, err error) {
	action := methodOf(method).action
	if settings, changes := settingsOf(message); action == "" || settings && !changes || s.deps.Record == nil {
		return
	}
	target := ""
	if m, ok := message.(interface{ GetModelName() string }); ok {
		target = m.GetModelName()
	}
	header, _ := metadata.FromIncomingContext(ctx)
	s.deps.Record(edgewise.PrincipalOf(ctx), s.client(ctx, header).String(), action, target, err)
}

// client returns the address that a call comes from.
func (s *Server) client(ctx context.Context, header metadata.MD) net.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return &net.TCPAddr{}
	}
	at, isTCP := p.Addr.(*net.TCPAddr)
	if !isTCP || len(s.proxies) == 0 {
		return p.Addr
	}
	client := s.proxies.Client(at.AddrPort().Addr().Unmap(), header.Get(frontend.ForwardedFor))
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(client, uint16(at.Port)))
}

// admission is an authorized call. It ends once, with the call at the latest.
type admission struct {
	authorize func() (*edgewise.Principal, func(), error) // authorizes one more message
	done      func()                                      // the request that the call was counted as has ended
	end       func()                                      // the call has ended
	// whether the call's own count has stood for a message; owned by the reader
	used bool
}

type admissionKey struct{}

func admissionOf(ctx context.Context) *admission {
	a, _ := ctx.Value(admissionKey{}).(*admission)
	return a
}

// revokeGrace is the time that a stream has after its caller was revoked, to end with a status that says so. When the
// context of a stream ends, the library writes a status of its own.
const revokeGrace = 500 * time.Millisecond

// enter authorizes a call. The context that it returns carries the caller, and ends when the caller is revoked.
func (s *Server) enter(ctx context.Context, secret string, from net.Addr, streams bool) (context.Context,
	*edgewise.Principal, error,
) {
	authorize := func() (*edgewise.Principal, func(), error) { return s.deps.Authorize(secret, from) }
	caller, done, err := authorize()
	if err != nil {
		return ctx, nil, err
	}
	stop := func() bool { return true }
	call, cancel := context.WithCancelCause(edgewise.WithPrincipal(ctx, caller))
	if caller.Lifetime != nil {
		stop = context.AfterFunc(caller.Lifetime, func() {
			if streams {
				time.AfterFunc(revokeGrace, func() { cancel(caller.Revoked()) })
			} else {
				cancel(caller.Revoked())
			}
		})
	}
	a := &admission{authorize: authorize, done: once(done)}
	a.end = sync.OnceFunc(func() {
		stop()
		a.done()
	})
	context.AfterFunc(ctx, func() { // the transport's context ends with the call, however that ends
		a.end()
		cancel(nil)
	})
	return context.WithValue(call, admissionKey{}, a), caller, nil
}

// once makes of a function, which may be nil, one that does nothing the second time.
func once(f func()) func() {
	if f == nil {
		return func() {}
	}
	return sync.OnceFunc(f)
}

// leave ends the admission of a call before the response is written: the client's next call finds room.
func leave(ctx context.Context) {
	if a := admissionOf(ctx); a != nil {
		a.end()
	}
}

// message admits one message of a stream like a call of its own: it counts against the rate and the concurrency of the
// caller. The admission of the stream stands for the first one. The caller calls done when the message is answered.
// Errors: those of Deps.Authorize.
func (a *admission) message() (done func(), err error) {
	if a == nil {
		return once(nil), nil
	}
	if !a.used {
		a.used = true
		return a.done, nil
	}
	_, done, err = a.authorize()
	return once(done), err
}
