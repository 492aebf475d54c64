//go:build cluster

package cluster

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

var group = flag.String("cluster.group", "", "set by TestNode: the control group of the node")

const (
	nodeName   = "node"
	nodeIP     = "10.77.0.1"
	podNetwork = "10.88.0.0/16"
	space      = "boxes" // the namespace of the boxes
	repository = "edgewise.test/edgewise"
	pause      = "edgewise.test/pause"
	socket     = "/run/containerd/containerd.sock"
)

// node is a cluster of one node.
type node struct {
	server
	dir string // what it writes stands here, wherever it believes that it writes
}

// runNode runs a cluster in this process's namespaces, and boxes in it.
func runNode(t *testing.T, dir string) {
	furnish(t, dir)
	n := &node{server: startServer(t), dir: dir}
	n.startRuntime(t)
	n.startKubernetes(t)
	n.prepare(t)
	t.Run("box", n.testBox)
	t.Run("lost", n.testStartup)
	t.Run("kept", n.testKept)
}

// furnish makes these namespaces look like a machine of its own.
func furnish(t *testing.T, dir string) {
	t.Helper()
	mount(t, "", "/", "", syscall.MS_REC|syscall.MS_PRIVATE)
	mount(t, "proc", "/proc", "proc", 0)
	for _, place := range []string{"/run", "/var/lib", "/var/log"} {
		own := filepath.Join(dir, "root", place)
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		mount(t, own, place, "", syscall.MS_BIND)
	}
	for setting, wanted := range machineWide {
		own := filepath.Join(dir, "root", setting)
		write(t, own, wanted+"\n")
		mount(t, own, setting, "", syscall.MS_BIND)
	}
	debian := tool("debian")
	t.Setenv("PATH", strings.Join([]string{*tools, debian + "/usr/sbin", debian + "/usr/bin", os.Getenv("PATH")}, ":"))
	libraries, _ := filepath.Glob(debian + "/usr/lib/*-linux-gnu")
	t.Setenv("LD_LIBRARY_PATH", strings.Join(libraries, ":"))
	for _, link := range []string{
		"link set lo up", "link add node type bridge", "address add " + nodeIP + "/24 dev node", "link set node up",
		"route add default via 10.77.0.254",
	} {
		run(t, "ip", strings.Fields(link)...)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
}

func mount(t *testing.T, from, to, kind string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount(from, to, kind, flags, ""); err != nil {
		t.Fatalf("mount %s: %v", to, err)
	}
}

func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, said)
	}
	return string(said)
}

// startRuntime starts containerd and gives it the images.
func (n *node) startRuntime(t *testing.T) {
	t.Helper()
	write(t, n.path("cni/10-pods.conflist"), `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
		{"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "`+podNetwork+`"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`)
	write(t, n.path("containerd.toml"), fmt.Sprintf(`version = 3
disabled_plugins = ['io.containerd.internal.v1.opt']
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [%q]
conf_dir = %q
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = %q
`, pause+":test", tool("debian/usr/lib/cni"), n.path("cni"), tool("debian/usr/sbin/runc")))
	start(t, "containerd", "--config", n.path("containerd.toml"))
	await(t, "containerd", func() bool {
		return exec.CommandContext(t.Context(), tool("ctr"), "version").Run() == nil
	})
	n.load(t, tool("pause"), pause)
	n.load(t, *image, repository)
}

// load gives containerd the image of a layout, whose tag is that of its version.
func (n *node) load(t *testing.T, layout, name string) {
	t.Helper()
	archive := n.path("image.tar")
	run(t, "tar", "-C", layout, "-cf", archive, ".")
	run(t, tool("ctr"), "-n", "k8s.io", "images", "import", "--base-name", name, archive)
	if err := os.Remove(archive); err != nil {
		t.Fatal(err)
	}
}

// startKubernetes starts what a cluster has beside its API server, and waits for the node.
func (n *node) startKubernetes(t *testing.T) {
	t.Helper()
	write(t, n.path("kubeconfig"), fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": [{"name": "test", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
		"users": [{"name": "test", "user": {"token": %q}}],
		"contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}`, n.address, token))
	write(t, n.path("kubelet.yaml"), n.kubelet())
	write(t, n.path("proxy.yaml"), `{"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
		"clusterCIDR": "`+podNetwork+`", "hostnameOverride": "`+nodeName+`", "clientConnection": {"kubeconfig": "`+n.path("kubeconfig")+`"},
		"conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}}`)
	config := "--kubeconfig=" + n.path("kubeconfig")
	// a busy machine is no reason to call the node lost
	start(t, "kube-controller-manager", config, "--leader-elect=false", "--service-account-private-key-file="+n.key,
		"--node-monitor-grace-period=10m", "--flex-volume-plugin-dir="+n.path("plugins"))
	start(t, "kube-scheduler", config, "--leader-elect=false")
	start(t, "kubelet", config, "--config="+n.path("kubelet.yaml"), "--hostname-override="+nodeName, "--node-ip="+nodeIP)
	start(t, "kube-proxy", "--config="+n.path("proxy.yaml"))
	await(t, "the node", func() bool {
		var found struct {
			Status struct{ Conditions []condition }
		}
		return n.get(t, "/api/v1/nodes/"+nodeName, &found) && holds(found.Status.Conditions, "Ready")
	})
}

// kubelet is the configuration of kubelet: its control groups are below the node's.
func (n *node) kubelet() string {
	return `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"cgroupDriver": "cgroupfs", "cgroupRoot": "` + *group + `", "failCgroupV1": false, "failSwapOn": false, "oomScoreAdj": 0,
		"containerRuntimeEndpoint": "unix://` + socket + `", "resolvConf": "", "makeIPTablesUtilChains": false,
		"volumePluginDir": "` + n.path("plugins") + `",
		"authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}}, "authorization": {"mode": "AlwaysAllow"},
		"evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%"},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99}`
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// object is an object of the API.
type object = map[string]any

// prepare makes what the boxes find: a namespace that allows nothing but what is restricted, and volumes of the node.
func (n *node) prepare(t *testing.T) {
	t.Helper()
	n.create(t, "/api/v1/namespaces", object{"metadata": object{
		"name": space, "labels": object{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
	n.create(t, "/apis/storage.k8s.io/v1/storageclasses", object{
		"metadata": object{"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
	})
	for _, name := range []string{"models", "data"} {
		n.createVolume(t, name)
	}
	n.create(t, "/api/v1/namespaces/"+space+"/persistentvolumeclaims", object{
		"metadata": object{"name": "models"},
		"spec": object{
			"storageClassName": "local", "volumeName": "models", "accessModes": []string{"ReadWriteOnce"},
			"resources": object{"requests": object{"storage": "1Gi"}},
		},
	})
	model := filepath.Join(n.volume("models"), "bias", "1", "model.onnx")
	if err := os.MkdirAll(filepath.Dir(model), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(model, biased().Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// createVolume makes a volume of a folder of the node.
func (n *node) createVolume(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(n.volume(name), 0o755); err != nil {
		t.Fatal(err)
	}
	n.create(t, "/api/v1/persistentvolumes", object{
		"metadata": object{"name": name},
		"spec": object{
			"capacity": object{"storage": "1Gi"}, "accessModes": []string{"ReadWriteOnce"}, "storageClassName": "local",
			"local": object{"path": n.volume(name)}, "persistentVolumeReclaimPolicy": "Retain",
			"nodeAffinity": object{"required": object{"nodeSelectorTerms": []object{{"matchExpressions": []object{
				{"key": "kubernetes.io/hostname", "operator": "In", "values": []string{nodeName}},
			}}}}},
		},
	})
}

func (n *node) volume(name string) string { return n.path("volumes/" + name) }

// bias is what the model adds.
const bias = 7

func biased() *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:        []onnxgen.Node{{Op: "Add", In: []string{"x", "bias"}, Out: []string{"y"}}},
		Initializers: []onnxgen.Tensor{onnxgen.Floats("bias", []int64{1}, bias)},
		Inputs:       []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Batch(1)}},
		Outputs:      []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: onnxgen.Batch(1)}},
	}}
}

// install installs the chart, or changes what is installed.
func (n *node) install(t *testing.T, release string, values ...string) {
	t.Helper()
	all := append([]string{
		"image.repository=" + repository, "resources.requests.cpu=50m", "resources.requests.memory=128Mi",
		"podAnnotations.turn=t0",
	}, values...)
	said, err := n.helm(t, "upgrade", "--install", release, chart, "--namespace", space, "--set", strings.Join(all, ","))
	if err != nil {
		t.Fatalf("helm: %v\n%s", err, said)
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
}
