// Package clustertest tries clusters as their operators run them: real
// processes of the real binary, brought up by their environment alone, looked
// at and changed by the commands, and used by the official client and by hand
// over raw connections. Every node has a loopback address of its own.
//
// It is about bring-up, changes, restarts and fail-over, one after the other.
// What must hold while a cluster is broken in earnest is judged by
// internal/chaos. Nothing imports it.
package clustertest
