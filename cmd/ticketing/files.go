package main

import (
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sys/unix"

	"ticketing/internal/admin"
	"ticketing/loop"
)

// filesNeeded is how many file descriptors a node may use at once: its
// connections, its loops, the admin endpoint's connections, a few that are open
// for a moment or for the process itself, and more of cluster mode.
func filesNeeded(maxConnections, loops, more int) uint64 {
	return uint64(more + maxConnections + loops*loop.DescriptorsPerLoop + admin.MaxConnections + loop.DescriptorsForItself)
}

// fitFiles raises the limit of open files to what the machine allows, and
// refuses settings that do not fit into it: better at the start than when the
// last connections come.
func fitFiles(maxConnections, loops, more int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading RLIMIT_NOFILE: %w", err)
	}
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil {
			limit = raised
		}
	}
	need := filesNeeded(maxConnections, loops, more)
	if limit.Cur < need && limit.Cur != math.MaxUint64 {
		return &settingError{
			setting: connectionsSetting,
			value:   strconv.Quote(strconv.Itoa(maxConnections)),
			problem: fmt.Sprintf("needs %d open files and RLIMIT_NOFILE allows %d; raise that limit or lower the setting", need, limit.Cur),
		}
	}
	return nil
}
