package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Bounds of a client.
const (
	maxHeaders     = 1 << 20          // bytes of the headers of an answer
	connectTimeout = 10 * time.Second // until the connection stands
	firstBackOff   = 100 * time.Millisecond
	lastBackOff    = 5 * time.Second // between attempts to connect
)

// Config says how a server is reached.
type Config struct {
	Dial      func(context.Context) (net.Conn, error)
	Token     string // sent with every call; empty: none
	MaxAnswer int    // bytes of an answer; 0: client.MaxAnswer
}

// Client talks to one server. It is safe for concurrent use. It connects when it is first used, and again when the
// connection is lost. How long a call may take is up to its context.
type Client struct {
	connection *grpc.ClientConn
	stub       inference.GRPCInferenceServiceClient
	token      string
}

var _ edgewise.Inferer = (*Client)(nil)

// New returns a client. It does not connect.
func New(c Config) (*Client, error) {
	most := c.MaxAnswer
	if most == 0 {
		most = client.MaxAnswer
	}
	connection, err := grpc.NewClient("passthrough:///server",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.Dial(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most), grpc.MaxCallSendMsgSize(client.MaxAnswer)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstBackOff, Multiplier: 2, Jitter: 0.2, MaxDelay: lastBackOff},
			MinConnectTimeout: connectTimeout,
		}))
	if err != nil {
		return nil, edgewise.Errorf("rpc.New", edgewise.Invalid, "%w", err)
	}
	return &Client{connection, inference.NewGRPCInferenceServiceClient(connection), c.Token}, nil
}

// Close ends the calls and the connection.
func (c *Client) Close() { _ = c.connection.Close() }

// Metadata of calls.
const (
	authorization = "authorization"
	// an error of a stream is the status of the call, with its kind, and not a message
	strictStream = "triton_grpc_error"
)

func (c *Client) context(ctx context.Context) context.Context {
	if c.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, authorization, "Bearer "+c.token)
}

// Live returns nil when the server is live.
func (c *Client) Live(ctx context.Context) error {
	answer, err := c.stub.ServerLive(c.context(ctx), &inference.ServerLiveRequest{})
	if err == nil && !answer.GetLive() {
		return edgewise.Errorf("rpc.Live", edgewise.Unavailable, "the server says that it is not live")
	}
	return failure("rpc.Live", err)
}

// ModelReady returns nil when requests to id are answered.
func (c *Client) ModelReady(ctx context.Context, id edgewise.ModelID) error {
	answer, err := c.stub.ModelReady(c.context(ctx), &inference.ModelReadyRequest{Name: id.Name, Version: number(id)})
	if err == nil && !answer.GetReady() {
		return edgewise.Errorf("rpc.ModelReady", edgewise.Unavailable, "model %v is not ready", id)
	}
	return failure("rpc.ModelReady", err)
}

// ModelMetadata returns a model's signature. Errors: NotFound, Unavailable.
func (c *Client) ModelMetadata(ctx context.Context, id edgewise.ModelID) (*kserve.ModelMetadata, error) {
	answer, err := c.stub.ModelMetadata(c.context(ctx), &inference.ModelMetadataRequest{Name: id.Name, Version: number(id)})
	if err != nil {
		return nil, failure("rpc.ModelMetadata", err)
	}
	return &kserve.ModelMetadata{
		Name: answer.GetName(), Versions: answer.GetVersions(), Platform: answer.GetPlatform(),
		Inputs: tensors(answer.GetInputs()), Outputs: tensors(answer.GetOutputs()),
	}, nil
}

func tensors(list []*inference.ModelMetadataResponse_TensorMetadata) []kserve.TensorMetadata {
	all := make([]kserve.TensorMetadata, len(list))
	for i, t := range list {
		all[i] = kserve.TensorMetadata{Name: t.GetName(), Datatype: t.GetDatatype(), Shape: t.GetShape()}
	}
	return all
}

// ModelConfig returns a model's configuration. Errors: NotFound, Unavailable, Unsupported where the server has none.
func (c *Client) ModelConfig(ctx context.Context, id edgewise.ModelID) (*inference.ModelConfig, error) {
	answer, err := c.stub.ModelConfig(c.context(ctx), &inference.ModelConfigRequest{Name: id.Name, Version: number(id)})
	return answer.GetConfig(), failure("rpc.ModelConfig", err)
}

// Load makes a model ready and waits for it.
func (c *Client) Load(ctx context.Context, name string) error {
	_, err := c.stub.RepositoryModelLoad(c.context(ctx), &inference.RepositoryModelLoadRequest{ModelName: name})
	return failure("rpc.Load", err)
}

// Unload stops serving a model.
func (c *Client) Unload(ctx context.Context, name string) error {
	_, err := c.stub.RepositoryModelUnload(c.context(ctx), &inference.RepositoryModelUnloadRequest{ModelName: name})
	return failure("rpc.Unload", err)
}

// Infer sends a request with raw tensors, and takes tensors of both forms. With req.Each it is a stream of responses, of
// which the last one is returned.
func (c *Client) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	message, err := request(req)
	if err != nil {
		return nil, err
	}
	if req.Sequence.Active() {
		ctx = metadata.AppendToOutgoingContext(ctx, kserve.HeaderSequence, kserve.SequenceHeader(req.Sequence))
	}
	if req.Each != nil {
		return c.stream(ctx, req, message)
	}
	answer, err := c.stub.ModelInfer(c.context(ctx), message)
	if err != nil {
		return nil, failure("rpc.Infer", err)
	}
	return response(answer)
}

// stream asks in a stream of its own, which ends with the last response.
func (c *Client) stream(
	ctx context.Context, req *edgewise.Request, message *inference.ModelInferRequest,
) (*edgewise.Response, error) {
	const op = "rpc.Infer"
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(c.context(ctx), strictStream, "true"))
	defer cancel()
	stream, err := c.stub.ModelStreamInfer(ctx)
	if err != nil {
		return nil, failure(op, err)
	}
	message.Parameters[emptyFinal] = parameter(true)
	if err := stream.Send(message); err != nil && !errors.Is(err, io.EOF) { // the cause of EOF is what Recv returns
		return nil, failure(op, err)
	}
	_ = stream.CloseSend()
	for {
		answer, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF): // a server without the parameter that calls a response the last one
			return &edgewise.Response{ID: req.ID, Model: req.Model, Empty: true}, nil
		case err != nil:
			return nil, failure(op, err)
		case answer.GetErrorMessage() != "":
			return nil, edgewise.Errorf(op, edgewise.Internal, "%s", answer.GetErrorMessage())
		}
		resp, err := response(answer.GetInferResponse())
		if err != nil {
			return nil, err
		}
		final, _ := resp.Parameters[finalResponse].(bool)
		delete(resp.Parameters, finalResponse)
		if final {
			resp.Empty = len(resp.Outputs) == 0
			return resp, nil
		}
		if err := req.Each(resp); err != nil {
			return nil, err
		}
	}
}

// Parameters of the protocol.
const (
	emptyFinal    = "triton_enable_empty_final_response"
	finalResponse = "triton_final_response"
)

func number(id edgewise.ModelID) string {
	if id.Version == 0 {
		return ""
	}
	return strconv.FormatInt(id.Version, 10)
}

// kinds are those of errors by their gRPC code. Others are Internal.
var kinds = map[codes.Code]edgewise.Kind{
	codes.Canceled: edgewise.Canceled, codes.InvalidArgument: edgewise.Invalid, codes.OutOfRange: edgewise.Invalid,
	codes.DeadlineExceeded: edgewise.Deadline, codes.NotFound: edgewise.NotFound, codes.AlreadyExists: edgewise.Exists,
	codes.PermissionDenied: edgewise.Denied, codes.FailedPrecondition: edgewise.Conflict, codes.Aborted: edgewise.Conflict,
	codes.Unimplemented: edgewise.Unsupported, codes.Unavailable: edgewise.Unavailable,
	codes.Unauthenticated: edgewise.Unauthenticated, codes.DataLoss: edgewise.Internal,
}

// failure gives the error of a call its kind.
func failure(op string, err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	if s.Code() == codes.ResourceExhausted { // the library's own word for an answer over the bound
		return edgewise.Errorf(op, edgewise.Exhausted, "%w: %s", client.ErrAnswer, s.Message())
	}
	return edgewise.Errorf(op, kinds[s.Code()], "%s", s.Message())
}
