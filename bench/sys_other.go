//go:build !linux

package main

import "syscall"

// dieWithParent does nothing: only Linux ends a child with its parent.
func dieWithParent() *syscall.SysProcAttr { return nil }
