# SPDX-License-Identifier: MIT
# Completion of the cenote command for bash; bash-completion finds it by the command's name.

_cenote_channels()
{
	local file

	[ -n "${CENOTE_IMEX_DIR:-}" ] || return
	for file in "$CENOTE_IMEX_DIR"/channel*; do
		[ -e "$file" ] && echo "${file##*/channel}"
	done
}

# The program that follows `cenote run`, `cenote trace` or `cenote check` and its options is completed as if it began the line.
_cenote_program()
{
	local first=$1

	if [ "$COMP_CWORD" -eq "$first" ]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$2"; compgen -f -- "$2")
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$first"
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$2")
	fi
}

# Words: the one to complete, and the options there are besides those of `cenote run`.
_cenote_run()
{
	local word=$1 i=2

	while [ "$i" -lt "$COMP_CWORD" ]; do
		case ${COMP_WORDS[i]} in
		--device | --devices | --memory | -o | --output | --html | --timeout | --suppress) i=$((i + 2)) ;;
		--) i=$((i + 1)); break ;;
		-*) i=$((i + 1)) ;;
		*) break ;;
		esac
	done
	if [ "$i" -gt "$COMP_CWORD" ]; then # the value of an option
		case ${COMP_WORDS[COMP_CWORD - 1]} in
		--device) mapfile -t COMPREPLY < <(compgen -W "host cuda auto" -- "$word") ;;
		-o | --output | --html) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
		esac
	elif [ "$i" -eq "$COMP_CWORD" ] && [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--device --devices --memory $2 --help --" -- "$word")
	else
		_cenote_program "$i" "$word"
	fi
}

_cenote_imex()
{
	local word=$1 action=${COMP_WORDS[2]}

	if [ "$COMP_CWORD" -eq 2 ]; then
		mapfile -t COMPREPLY < <(compgen -W "create list remove start status stop --help" -- "$word")
	elif [ "$action" = create ] && [ "${COMP_WORDS[COMP_CWORD - 1]}" = --mode ]; then
		mapfile -t COMPREPLY < <(compgen -W "0600 0640 0644 0666" -- "$word")
	elif [ "$action" = create ]; then
		mapfile -t COMPREPLY < <(compgen -W "--mode" -- "$word")
	elif [ "$action" = list ] || [ "$action" = status ]; then
		mapfile -t COMPREPLY < <(compgen -W "--json" -- "$word")
	elif [ "$action" = start ] && [[ ${COMP_WORDS[COMP_CWORD - 1]} == --@(nodes|key|log) ]]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	elif [ "$action" = start ] && [ "${COMP_WORDS[COMP_CWORD - 1]}" = --transport ]; then
		mapfile -t COMPREPLY < <(compgen -W "tls ucx" -- "$word")
	elif [ "$action" = start ]; then
		mapfile -t COMPREPLY < <(compgen -W "--nodes --key --node --log --transport" -- "$word")
	elif [ "$action" = remove ] && [ "$COMP_CWORD" -eq 3 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_cenote_channels)" -- "$word")
	fi
}

_cenote_ps()
{
	local word=$1

	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--sort) mapfile -t COMPREPLY < <(compgen -W "deferred waited shared used reserved pools pid" -- "$word") ;;
	--user) mapfile -t COMPREPLY < <(compgen -u -- "$word") ;;
	--pid | --container | --fail-if) ;;
	*)
		mapfile -t COMPREPLY < <(compgen -W "--pid --user --container --deferred --sort --fail-if --json --help" \
			-- "$word")
		;;
	esac
}

_cenote_map()
{
	local word=$1

	if [ "${COMP_WORDS[COMP_CWORD - 1]}" = --svg ]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	elif [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--json --svg --help" -- "$word")
	else # pools, as the command itself says
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" ps --json 2>/dev/null |
			sed -n 's/^ *{"id": "\([0-9a-f]\{8\}\)[0-9a-f]\{8\}".*/\1/p')" -- "$word")
	fi
}

_cenote()
{
	local word=${COMP_WORDS[COMP_CWORD]} commands="demo run cc info smi ps top map kept metrics trace check imex gc bench"

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$commands help --help --version" -- "$word")
		return
	fi
	case ${COMP_WORDS[1]} in
	help) [ "$COMP_CWORD" -ne 2 ] || mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word") ;;
	run) _cenote_run "$word" "--delay" ;;
	cc)
		if [[ $word == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "-o -c -O2 -g --ptx --fatbin -use_fast_math --dry-run --version --help" -- "$word")
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
		fi
		;;
	trace) _cenote_run "$word" "-o --output --html --marks" ;;
	check) _cenote_run "$word" "--strict --exact --timeout --delay --json --html --suppress" ;;
	imex) _cenote_imex "$word" ;;
	map) _cenote_map "$word" ;;
	ps) _cenote_ps "$word" ;;
	metrics)
		if [[ ${COMP_WORDS[COMP_CWORD - 1]} == @(-o|--output) ]]; then
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
		else
			mapfile -t COMPREPLY < <(compgen -W "-o --output --openmetrics --help" -- "$word")
		fi
		;;
	top) mapfile -t COMPREPLY < <(compgen -W "--delay --once --help" -- "$word") ;;
	bench) mapfile -t COMPREPLY < <(compgen -W "--json --seconds --help" -- "$word") ;;
	info) mapfile -t COMPREPLY < <(compgen -W "--json --help" -- "$word") ;;
	smi) mapfile -t COMPREPLY < <(compgen -W "--json --help" -- "$word") ;;
	kept) mapfile -t COMPREPLY < <(compgen -W "--json --retire --help" -- "$word") ;;
	gc) mapfile -t COMPREPLY < <(compgen -W "--dry-run --json --help" -- "$word") ;;
	demo)
		if [ "${COMP_WORDS[COMP_CWORD - 1]}" = --svg ]; then
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
		else
			mapfile -t COMPREPLY < <(compgen -W "--parts --ascii --json --svg --help" -- "$word")
		fi
		;;
	esac
}

complete -F _cenote cenote
