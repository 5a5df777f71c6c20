//go:build !debug

package shard

const debug = false
