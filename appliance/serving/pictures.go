package serving

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/picture"
)

// pictureInputs are the loaded versions that make one of their inputs of pictures themselves, on their GPU.
type pictureInputs struct {
	mu       sync.RWMutex
	versions map[edgewise.ModelID]*pictured
}

func newPictureInputs() *pictureInputs {
	return &pictureInputs{versions: map[edgewise.ModelID]*pictured{}}
}

// accepts tells whether a version accepts pictures for an input.
func (t *pictureInputs) accepts(id edgewise.ModelID, input string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p := t.versions[id]
	return p != nil && p.input == input
}

func (t *pictureInputs) add(p *pictured) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.versions[p.id] = p
}

// remove ends that p accepts pictures. Another one of the same version, which has been loaded since, still does.
func (t *pictureInputs) remove(p *pictured) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.versions[p.id] == p {
		delete(t.versions, p.id)
	}
}

// pictured is a layer in front of a version on GPUs whose image input may come as pictures. Such requests have a
// queue of their own: they are batched with each other, as bytes, and become tensors on the GPU.
type pictured struct {
	edgewise.Servable
	pictures edgewise.Servable // over the same instance
	id       edgewise.ModelID
	input    string
	inputs   *pictureInputs
}

// withPictures puts that layer in front of a version that can accept pictures.
func (t *load) withPictures(loaded *manager.Loaded, instance edgewise.Instance) error {
	if !t.mayAcceptPictures() {
		return nil
	}
	inspection, err := t.inspection()
	if err != nil {
		return err
	}
	input, ok := onnx.PictureInput(t.version.Model, inspection)
	if !ok {
		return nil
	}
	asBytes := *t.version
	asBytes.Model = pictureModel(t.version.Model, input)
	queue := sched.New(&asBytes, instance, sched.Config{
		Instances: t.place.instances, Proof: proved(loaded), MaxQueue: t.config.MaxQueue, Shared: true, Logger: t.config.Logger,
	})
	t.pictures.addTo(loaded, t.version.ID, input, queue)
	return nil
}

// addTo puts the queue of a version's pictures beside its own.
func (t *pictureInputs) addTo(loaded *manager.Loaded, id edgewise.ModelID, input string, queue edgewise.Servable) {
	front := &pictured{loaded.Servable, queue, id, input, t}
	loaded.Servable = front
	t.add(front)
}

// mayAcceptPictures tells whether nothing in a version's configuration needs its requests as tensors.
func (t *load) mayAcceptPictures() bool {
	m := t.version.Model
	return t.place.devices[0].Kind == edgewise.GPU && m.SequenceBatching == nil && !wantsCache(m) &&
		t.config.Limiter == nil &&
		m.Parameters[sched.PaddingParameter].StringValue == "" && len(m.BatchInput)+len(m.BatchOutput) == 0
}

// proved is what is known of the rows of a version that has been warmed up.
func proved(s edgewise.Servable) *sched.Proof {
	b := s.Statistics().Batching
	if b.Independent {
		return &sched.Proof{Declared: b.Reason}
	}
	return &sched.Proof{Refuted: b.Reason}
}

// pictureModel is m with the input as pictures of any size, and what is to be done to their channels.
func pictureModel(m *edgewise.Model, input string) *edgewise.Model {
	as := *m
	as.Input = slices.Clone(m.Input)
	at := slices.IndexFunc(as.Input, func(in edgewise.ModelInput) bool { return in.Name == input })
	as.Input[at] = edgewise.ModelInput{Name: input, DataType: edgewise.Uint8, Dims: edgewise.Shape{-1, -1, 3}}
	as.Input = append(as.Input, edgewise.ModelInput{
		Name: onnx.NormalInput(input), DataType: edgewise.FP32,
		Dims: edgewise.Shape{onnx.NormalSize},
	})
	return &as
}

// Infer answers. A request whose pictures cannot be sent as they are, or that the GPU does not take, is answered as
// one of tensors.
func (p *pictured) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	asBytes, ok := p.request(req)
	if !ok {
		return p.Servable.Infer(ctx, req)
	}
	response, err := p.pictures.Infer(ctx, asBytes)
	if err != nil && edgewise.KindOf(err) == edgewise.Unsupported {
		p.inputs.remove(p)
		return p.Servable.Infer(ctx, req)
	}
	return response, err
}

// request turns the pictures of a request into tensors of bytes. Those of one request have to be of one size, because
// they are rows of one tensor.
func (p *pictured) request(req *edgewise.Request) (*edgewise.Request, bool) {
	at := slices.IndexFunc(req.Inputs, func(t edgewise.Tensor) bool { return t.Name == p.input && t.Pictures != nil })
	if at < 0 {
		return nil, false
	}
	list := req.Inputs[at].Pictures.List
	first := &list[0]
	pixels := picture.Part(first)
	if len(list) > 1 {
		pixels = slices.Clone(pixels)
	}
	var normals []byte
	for i := range list {
		if list[i].Width != first.Width || list[i].Height != first.Height {
			return nil, false
		}
		if i > 0 {
			pixels = append(pixels, picture.Part(&list[i])...)
		}
		for _, values := range [][3]float32{list[i].Mean, list[i].Scale} {
			for _, v := range values {
				normals = binary.LittleEndian.AppendUint32(normals, math.Float32bits(v))
			}
		}
	}
	as := *req
	as.Inputs = slices.Clone(req.Inputs)
	n := int64(len(list))
	as.Inputs[at] = edgewise.Tensor{
		Name: p.input, Type: edgewise.Uint8,
		Shape: edgewise.Shape{n, int64(first.Height), int64(first.Width), 3}, Data: pixels,
	}
	as.Inputs = append(as.Inputs, edgewise.Tensor{
		Name: onnx.NormalInput(p.input), Type: edgewise.FP32,
		Shape: edgewise.Shape{n, onnx.NormalSize}, Data: normals,
	})
	return &as, true
}

// Statistics adds up both queues.
func (p *pictured) Statistics() edgewise.Statistics {
	st, pictures := p.Servable.Statistics(), p.pictures.Statistics()
	st.Pictures = pictures.InferenceCount
	st.Add(pictures)
	return st
}

// Close closes both queues, that of the instance last.
func (p *pictured) Close() error {
	p.inputs.remove(p)
	return errors.Join(p.pictures.Close(), p.Servable.Close())
}
