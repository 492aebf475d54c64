package runner

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// socketPair makes two connected sockets that keep messages apart and that no other child inherits.
func socketPair() (ours, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	return pair[0], pair[1], err
}

// send writes one frame, with descriptors beside it. Flags: unix.MSG_DONTWAIT where a peer that does not read must not
// hold the sender up.
func send(fd int, frame []byte, descriptors []int, flags int) error {
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	for {
		err := unix.Sendmsg(fd, frame, rights, nil, flags|unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive waits for one frame. The error is io.EOF when the peer is gone, errFrame when the frame is too long or empty.
func receive(fd int, into []byte) (frame []byte, err error) {
	for {
		n, _, flags, _, err := unix.RecvmsgBuffers(fd, [][]byte{into}, nil, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return received(into, n, flags, err)
	}
}

// receiveWith waits for one frame and the descriptors beside it, which are the caller's to close, also on errFrame.
func receiveWith(fd int, into, rights []byte) (frame []byte, descriptors []int, err error) {
	for {
		n, m, flags, _, err := unix.Recvmsg(fd, into, rights, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		frame, err = received(into, n, flags, err)
		if m == 0 {
			return frame, nil, err
		}
		messages, parsing := unix.ParseSocketControlMessage(rights[:m])
		if parsing != nil {
			return nil, nil, errFrame
		}
		for i := range messages {
			list, parsing := unix.ParseUnixRights(&messages[i])
			if parsing != nil {
				return nil, descriptors, errFrame
			}
			descriptors = append(descriptors, list...)
		}
		return frame, descriptors, err
	}
}

func received(into []byte, n, flags int, err error) ([]byte, error) {
	switch {
	case err != nil:
		return nil, err
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return nil, errFrame
	case n == 0:
		return nil, io.EOF
	}
	return into[:n], nil
}
