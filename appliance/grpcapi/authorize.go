package grpcapi

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
)

// authorizationKey is the metadata that carries an API key, as "Bearer ek_...".
const authorizationKey = "authorization"

// use is what looking at a model to run it needs.
const use = edgewise.Read | edgewise.Infer

// rightsOf returns the rights of which a method needs one, whatever its message says; 0 for those that everybody may
// call. needOf says what the message needs once it is there.
func rightsOf(method string) edgewise.Rights {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if service == "grpc.health.v1.Health" || strings.HasPrefix(service, "grpc.reflection.") {
		return 0
	}
	switch name {
	case "ServerLive", "ServerReady":
		return 0
	case "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelStatistics":
		return use
	case "ModelInfer", "ModelStreamInfer", "SystemSharedMemoryStatus", "SystemSharedMemoryRegister",
		"SystemSharedMemoryUnregister",
		"CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister":
		return edgewise.Infer
	case "RepositoryIndex":
		return edgewise.Read
	case "TraceSetting":
		return edgewise.Read | edgewise.Operate
	case "LogSettings":
		return edgewise.Read | edgewise.Admin
	case "RepositoryModelLoad", "RepositoryModelUnload":
		return edgewise.Operate
	}
	return edgewise.Admin // what is new
}

// authorize decides from a call's metadata whether it goes on, and returns a context that carries who calls.
func (s *Server) authorize(ctx context.Context, info *tap.Info) (context.Context, error) {
	need := rightsOf(info.FullMethodName)
	if s.deps.Authorize == nil || need == 0 {
		return ctx, nil
	}
	secret, err := bearer(info.Header)
	if err != nil {
		return ctx, err
	}
	var from net.Addr = &net.TCPAddr{}
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr
	}
	call, caller,
		err := s.enter(ctx, secret, from,
		info.FullMethodName == inference.GRPCInferenceService_ModelStreamInfer_FullMethodName)
	if err != nil {
		return ctx, err
	}
	if caller.Rights&need == 0 {
		leave(call) // the transport does not end the context of a call that is refused here
		return ctx, lacking("grpcapi.authorize", caller, need)
	}
	return call, nil
}

// lacking says which right is missing.
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
			"authorization of the kind %.20q is not taken: want Bearer and an API key", kind)
	}
	return strings.TrimSpace(secret), nil
}

// mayName refuses a caller that is bound to models what is not about one of them.
func mayName(ctx context.Context, model string) error {
	who := edgewise.PrincipalOf(ctx)
	if who == nil || who.MayName(model) {
		return nil
	}
	return edgewise.Errorf("grpcapi.mayName", edgewise.Denied, "%s is bound to the models %s", who.Actor(),
		strings.Join(who.Models, ", "))
}

// mayAsk checks the model that a message names, where its kind names one.
func mayAsk(ctx context.Context, method string, message any) error {
	if edgewise.PrincipalOf(ctx) == nil || strings.HasSuffix(method, "/ServerMetadata") {
		return nil
	}
	if need := needOf(message); need != 0 && edgewise.PrincipalOf(ctx).Rights&need == 0 {
		return lacking("grpcapi.mayAsk", edgewise.PrincipalOf(ctx), need)
	}
	switch m := message.(type) {
	case interface{ GetModelName() string }:
		return mayName(ctx, m.GetModelName())
	case *received: // an inference, whose model is known when it has been read
		return nil
	case interface{ GetName() string }:
		return mayName(ctx, m.GetName())
	}
	return mayName(ctx, "")
}

// needOf returns the rights of which a message needs one, where messages of its method differ in that; 0 where rightsOf
// says it all.
func needOf(message any) edgewise.Rights {
	switch m := message.(type) {
	case *inference.ModelStatisticsRequest:
		if m.GetName() == "" { // of all models
			return edgewise.Read
		}
	case *inference.TraceSettingRequest:
		if len(m.GetSettings()) > 0 {
			return edgewise.Operate
		}
		return edgewise.Read
	case *inference.LogSettingsRequest:
		if len(m.GetSettings()) > 0 {
			return edgewise.Admin
		}
		return edgewise.Read
	}
	return 0
}

// changeOf returns what a message changes, as the audit log calls it; "" for one that changes nothing that the log is
// about.
func changeOf(message any) string {
	switch m := message.(type) {
	case *inference.RepositoryModelLoadRequest:
		return "model.load"
	case *inference.RepositoryModelUnloadRequest:
		return "model.unload"
	case *inference.TraceSettingRequest:
		if len(m.GetSettings()) > 0 {
			return "tracing.change"
		}
	case *inference.LogSettingsRequest:
		if len(m.GetSettings()) > 0 {
			return "logging.change"
		}
	}
	return ""
}

// record writes a line to the audit log about a call that changed something, or tried to.
func (s *Server) record(ctx context.Context, message any, err error) {
	action := changeOf(message)
	if action == "" || s.deps.Record == nil {
		return
	}
	target, from := "", ""
	if m, ok := message.(interface{ GetModelName() string }); ok {
		target = m.GetModelName()
	}
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr.String()
	}
	s.deps.Record(edgewise.PrincipalOf(ctx), from, action, target, err)
}
