package image

// kind is what QEMU plays a kind of machine with.
type kind struct {
	emulator       string
	firmware, vars string
	arguments      []string
}

const (
	ovmf  = "/usr/share/OVMF/"
	aavmf = "/usr/share/AAVMF/"
)

// kind is a PC, one with Secure Boot on and Microsoft's keys, or a board for arm64.
func (m *machine) kind() kind {
	switch {
	case m.arch == "arm64":
		return kind{"qemu-system-aarch64", aavmf + "AAVMF_CODE.fd", aavmf + "AAVMF_VARS.fd", []string{
			"-machine", "virt", "-cpu", "cortex-a57", "-device", "virtio-gpu-pci",
		}}
	case m.secure:
		return kind{"qemu-system-x86_64", ovmf + "OVMF_CODE_4M.secboot.fd", ovmf + "OVMF_VARS_4M.ms.fd", []string{
			"-machine", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on", "-cpu", "max,la57=off", "-vga", "std",
		}}
	}
	return kind{
		"qemu-system-x86_64", ovmf + "OVMF_CODE_4M.fd", ovmf + "OVMF_VARS_4M.fd",
		[]string{"-machine", "q35", "-cpu", "max,la57=off", "-vga", "std"},
	}
}
