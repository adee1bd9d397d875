# Sums samples of `perf script` by phase and stage, for bench-stages.sh. The first file has
# the phases: the clock at the end of each, and what `varve bench` printed.

function member(line, name) {
	if (!match(line, "\"" name "\":\"?[^,\"}]*")) return ""
	line = substr(line, RSTART, RLENGTH)
	sub(/^"[^"]*":"?/, "", line)
	return line
}

FNR == NR {
	if ($2 ~ /"error"/ || member($0, "wall_s") == "") next
	n++
	end[n] = $1; start[n] = $1 - member($0, "wall_s")
	name[n] = member($0, "fs") " " member($0, "workload") " " member($0, "phase")
	if (member($0, "unit") != "") name[n] = name[n] ", units of " member($0, "unit")
	if (member($0, "threads") != "") name[n] = name[n] ", threads " member($0, "threads")
	ops[n] = member($0, "ops") + 0; bytes[n] = member($0, "bytes") + 0
	seconds[n] = member($0, "seconds") + 0; rate[n] = member($0, "MB_per_s") + 0
	if (seconds[n] == 0) seconds[n] = 1e-6
	next
}

# The phase of a time: phases are few, and samples come in order.
function phase_of(time,   i) {
	for (i = 1; i <= n; i++) if (time >= start[i] && time <= end[i]) return i
	return 0
}

# The stage of a sample: the first rule that fits its stack, innermost function first.
function stage(comm, leaf, stack, kernel) {
	if (leaf ~ /safe_halt/) return "idle"
	if (leaf ~ /^perf_/) return "sampling"
	if (comm !~ /varve|^(fuse2fs|passthrough|swapper|k[a-z]*\/|kworker|ksoftirqd|jbd2|loop|rcu|migration)/)
		return "other programs"
	if (leaf ~ /bench::/ || stack ~ /drop_caches|drop_pagecache|drop_slab/) return "the benchmark itself"
	if (leaf ~ /crc|checksum/) return "checksum"
	if (leaf ~ /iowrite|vp_notify|native_apic|pv_send_ipi|kvm_send_ipi|kvm_smp_send/) return "calls of the hypervisor"
	if (leaf ~ /copy_user|rep_movs|_copy_to_iter|_copy_from_iter|copy_page_(to|from)|memcpy|memmove|copy_folio|copy_to_user|copy_from_user/)
		return kernel ? "copies, kernel" : "copies, user"
	if (stack ~ /page_fault|mm_populate|do_mmap|vm_munmap|madvise|clear_page/) return "mapping memory"
	if (stack ~ /try_to_wake_up|schedule|finish_task_switch|sched_yield|futex|swapper/ || comm ~ /^swapper/)
		return "wake-ups and switches"
	if (leaf ~ /malloc|_int_free|cfree|calloc|realloc|unlink_chunk|tcache/) return "allocator"
	if (stack ~ /fuse_/ && stack !~ /blk_|submit_bio|ext4_/) return "kernel: FUSE"
	if (stack ~ /blk_|bio|iomap_|loop_|virtblk|scsi|ext4_file|ext4_dio|dio_|jbd2/) return "kernel: block layer and host's file system"
	if (kernel && stack ~ /ext4_|filemap|page_cache|folio/) return "kernel: page cache and ext4"
	if (kernel) return "kernel: the rest"
	return "the file system's own code"
}

function finish(   p, s) {
	if (event == "" ) return
	p = phase_of(time)
	if (p == 0) { event = ""; return }
	if (event == "cpu-clock") {
		s = stage(comm, leaf, stack, leafkernel)
		spent[p, s]++; stages[s] = 1
		if (s !~ /^(idle|sampling|other programs|the benchmark)/) {
			sub(/\/.*/, "", comm)
			by[p, comm]++; of[p, comm, s]++; threads[comm] = 1
		}
		if (s !~ /^(idle|sampling|other programs|the benchmark)/) work[p]++
	} else if (event == "context-switches") {
		switches[p] += 100
	}
	event = ""
}

match($0, /\[[0-9]+\] +[0-9]+\.[0-9]+: +/) {
	finish()
	comm = $0; sub(/ +[0-9]+ \[[0-9]+\].*/, "", comm); sub(/^ +/, "", comm)
	rest = substr($0, RSTART)
	split(rest, words, " ")
	time = words[2] + 0
	event = rest; sub(/^\[[0-9]+\] +[0-9.]+: +/, "", event)
	trace = event
	sub(/^[a-z_:-]+(\/[^\/]*\/)?: */, "", trace)
	sub(/(\/[^\/]*\/)?:( .*)?$/, "", event)
	if (event ~ /block_rq|fuse_request/) { tracepoint(); event = "" }
	leaf = ""; stack = ""
	next
}
/^[ \t]+[0-9a-f]+ / {
	if (leaf == "") { leaf = $2; leafkernel = ($1 ~ /^ffffffff/) }
	stack = stack " " $2
}

function tracepoint(   p, key, f) {
	p = phase_of(time)
	if (p == 0) return
	split(trace, f, " ")
	if (event ~ /block_rq/) {
		# "254,0 R 4096 () SECTOR + SECTORS ..." at the issue, without the bytes at the end
		match(trace, /\) [0-9]+ \+ [0-9]+/)
		split(substr(trace, RSTART + 2, RLENGTH - 2), at, " ")
		key = f[1] " " at[1]
		if (event ~ /issue/) { issued[key] = time; return }
		if (!(key in issued)) return
		s = "device " f[1] " " (f[2] ~ /W/ ? "writes" : f[2] ~ /R/ ? "reads" : "flushes")
		requests[p, s]++; carried[p, s] += at[3] * 512; took[p, s] += time - issued[key]
		kinds[s] = 1; delete issued[key]
		return
	}
	match(trace, /req [0-9]+/); key = substr(trace, RSTART, RLENGTH)
	if (event ~ /send/) {
		sent[key] = time; if (!match(trace, /FUSE_[A-Z0-9_]+/)) match(trace, /opcode [0-9]+/)
		opcode[key] = substr(trace, RSTART, RLENGTH); match(trace, /len [0-9]+/)
		size[key] = substr(trace, RSTART + 4, RLENGTH - 4); return
	}
	if (!(key in sent)) return
	s = opcode[key]; match(trace, /len [0-9]+/)
	answered = substr(trace, RSTART + 4, RLENGTH - 4)
	requests[p, s]++; carried[p, s] += size[key] + answered; took[p, s] += time - sent[key]
	kinds[s] = 1; delete sent[key]
}

END {
	finish()
	for (p = 1; p <= n; p++) {
		large = bytes[p] >= 65536 * ops[p]
		units = large ? bytes[p] / 1048576 : ops[p]
		if (units == 0) continue
		printf "\n%s: %.1f us for each %s, %.0f MB/s (%.3f s)\n", name[p], seconds[p] * 1e6 / units,
			large ? "MiB" : "operation", rate[p], seconds[p]
		fflush()
		for (s in stages) if ((p, s) in spent)
			printf "  %8.2f us  %s\n", spent[p, s] / hz * 1e6 / units, s | "sort -rn"
		close("sort -rn")
		if (work[p]) printf "  %8.2f us  all but idling, sampling, other programs and the benchmark\n", work[p] / hz * 1e6 / units
		fflush()
		for (t in threads) if ((p, t) in by && by[p, t] * 50 > seconds[p] * hz) {
			parts = ""
			for (s in stages) if (of[p, t, s] * 12 > by[p, t])
				parts = parts sprintf("%s %.2f", parts == "" ? ":" : ",", of[p, t, s] / hz * 1e6 / units) " " s
			printf "  %8.2f us     by %s%s\n", by[p, t] / hz * 1e6 / units, t, parts | "sort -rn"
		}
		close("sort -rn")
		for (s in kinds) if ((p, s) in requests)
			printf "  %8d     %s, %.3f each, of %.1f KiB, %.0f us\n", requests[p, s], s, requests[p, s] / units,
				carried[p, s] / requests[p, s] / 1024, took[p, s] / requests[p, s] * 1e6
		if (switches[p]) printf "  %8.2f     switches between threads\n", switches[p] / units
	}
}
