package process

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// SocketAt returns the name of the socket at the far end of a connection from a process of this machine, over IPv4. It asks for this one socket
// (sock_diag(7)): the table of all in /proc takes some ms, and much longer on a busy machine. Error: one of Linux, such as ENOENT if the far end is
// closed.
func SocketAt(c net.Conn) (string, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return "", os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, request(c), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return "", os.NewSyscallError("sendto", err)
	}
	var answer [1024]byte
	n, _, err := unix.Recvfrom(fd, answer[:], 0)
	if err != nil {
		return "", os.NewSyscallError("recvfrom", err)
	}
	return nameIn(answer[:n])
}

const socketByFamily = 20 // SOCK_DIAG_BY_FAMILY in linux/sock_diag.h

// diagnosed is struct inet_diag_req_v2 in linux/inet_diag.h, which names a socket.
type diagnosed struct {
	Family, Protocol, Extensions, Pad uint8
	States                            uint32
	From, To                          [2]byte // ports, most significant byte first
	FromIP, ToIP                      [16]byte
	Interface                         uint32
	Cookie                            [2]uint32
}

// request is the question which socket is at the far end of a connection.
func request(c net.Conn) []byte {
	end := func(a net.Addr) (port [2]byte, ip [16]byte) {
		at := a.(*net.TCPAddr).AddrPort()
		binary.BigEndian.PutUint16(port[:], at.Port())
		v4 := at.Addr().Unmap().As4()
		copy(ip[:], v4[:])
		return port, ip
	}
	of := diagnosed{Family: unix.AF_INET, Protocol: unix.IPPROTO_TCP, States: ^uint32(0), Cookie: [2]uint32{^uint32(0), ^uint32(0)}}
	of.From, of.FromIP = end(c.RemoteAddr())
	of.To, of.ToIP = end(c.LocalAddr())
	head := unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + binary.Size(of)), Type: socketByFamily, Flags: unix.NLM_F_REQUEST}
	return appended(appended(nil, head), of)
}

func appended(b []byte, fixed any) []byte {
	b, err := binary.Append(b, binary.NativeEndian, fixed)
	if err != nil {
		panic(err) // all members have a fixed size
	}
	return b
}

// nameIn returns the name of the socket that an answer describes, as struct inet_diag_msg.
func nameIn(answer []byte) (string, error) {
	const errno, inode = unix.SizeofNlMsghdr, unix.SizeofNlMsghdr + 68 // where they are
	var head unix.NlMsghdr
	if _, err := binary.Decode(answer, binary.NativeEndian, &head); err != nil {
		return "", fmt.Errorf("the answer of Linux has %d bytes: %w", len(answer), err)
	}
	switch {
	case head.Type == unix.NLMSG_ERROR && len(answer) >= errno+4:
		return "", syscall.Errno(-int32(binary.NativeEndian.Uint32(answer[errno:])))
	case head.Type != socketByFamily || len(answer) < inode+4:
		return "", fmt.Errorf("the answer of Linux has type %d and %d bytes", head.Type, len(answer))
	}
	return fmt.Sprintf("socket:[%d]", binary.NativeEndian.Uint32(answer[inode:])), nil
}
