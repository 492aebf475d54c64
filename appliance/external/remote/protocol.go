package remote

import (
	"context"
	"encoding/json"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/client/rpc"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// protocol is what servers are asked, over HTTP or gRPC.
type protocol interface {
	edgewise.Inferer
	Live(ctx context.Context) error
	ModelReady(ctx context.Context, id edgewise.ModelID) error
	ModelMetadata(ctx context.Context, id edgewise.ModelID) (*kserve.ModelMetadata, error)
	Load(ctx context.Context, name string) error
	Unload(ctx context.Context, name string) error
	Close()
	// settings are what a model's configuration says beside its metadata. Error: also where the server has none.
	settings(ctx context.Context, id edgewise.ModelID) (*settings, error)
	// streams tells whether a request may have any number of responses.
	streams() bool
}

// settings are what the box takes from the configuration that a server has of a model.
type settings struct {
	batch     int32 // largest batch; 0: none
	optional  []string
	decoupled bool
}

// connect returns a client of the server. Nothing is sent yet.
func connect(c Config) (protocol, error) {
	if c.Address.grpc {
		own, err := rpc.New(rpc.Config{Dial: c.Address.dial, Token: c.Token, MaxAnswer: int(c.MaxAnswer)})
		return overGRPC{own}, err
	}
	options := []client.Option{client.WithDialer(c.Address.dial), client.WithMaxAnswer(c.MaxAnswer)}
	if c.Token != "" {
		options = append(options, client.WithToken(c.Token))
	}
	host := c.Address.target
	if c.Address.network == "unix" {
		host = "localhost"
	}
	own, err := client.New("http://"+host, options...)
	return overHTTP{own}, err
}

type overHTTP struct{ *client.Client }

func (overHTTP) streams() bool { return false }

func (c overHTTP) settings(ctx context.Context, id edgewise.ModelID) (*settings, error) {
	text, err := c.ModelConfig(ctx, id)
	if err != nil {
		return nil, err
	}
	var read struct {
		MaxBatchSize int32 `json:"max_batch_size"`
		Input        []struct {
			Name     string `json:"name"`
			Optional bool   `json:"optional"`
		} `json:"input"`
		Policy struct {
			Decoupled bool `json:"decoupled"`
		} `json:"model_transaction_policy"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, edgewise.Errorf("remote.settings", edgewise.Internal, "%w: %w", client.ErrAnswer, err)
	}
	s := &settings{batch: read.MaxBatchSize, decoupled: read.Policy.Decoupled}
	for _, in := range read.Input {
		if in.Optional {
			s.optional = append(s.optional, in.Name)
		}
	}
	return s, nil
}

type overGRPC struct{ *rpc.Client }

func (overGRPC) streams() bool { return true }

func (c overGRPC) settings(ctx context.Context, id edgewise.ModelID) (*settings, error) {
	config, err := c.ModelConfig(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &settings{batch: config.GetMaxBatchSize(), decoupled: config.GetModelTransactionPolicy().GetDecoupled()}
	for _, in := range config.GetInput() {
		if in.GetOptional() {
			s.optional = append(s.optional, in.GetName())
		}
	}
	return s, nil
}
