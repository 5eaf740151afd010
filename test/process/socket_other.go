//go:build !linux

package process

import (
	"errors"
	"net"
)

// SocketAt returns the name of the socket at the far end of a connection from a process of this machine. Only Linux has such names.
func SocketAt(net.Conn) (string, error) { return "", errors.ErrUnsupported }
