#!/usr/bin/env zsh
# SPDX-License-Identifier: MIT
#
# What zsh offers to complete a line with: a zsh at a terminal of its own, to which lines are typed, each with a Tab.
#
#     complete.zsh FOLDER_OF_COMPLETIONS LINE...
#
# Prints for each line its number and a colon, and what is offered behind that, one a line.
zmodload zsh/zpty || exit 1

folder=$1
shift

# In the zsh that is typed to: what adds matches has them printed, one a line, and the line is thrown away.
setup='
PROMPT=
setopt no_beep no_zle_bracketed_paste 2>/dev/null
unset zle_bracketed_paste
stty -echo
fpath=('${(q)folder}' $fpath)
autoload -U compinit && compinit -u -D
zstyle ":completion:*" list-prompt ""
zstyle ":completion:*" insert-tab false
compadd() {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
		builtin compadd "$@"
		return
	fi
	local -a offered
	builtin compadd -A offered "$@"
	(( $#offered )) && print -rC1 -- "<"${^offered}">"
	builtin compadd "$@"
}
comppostfuncs=(say_end)
say_end() { print "<end>"; comppostfuncs=(say_end); compstate[list]=; compstate[insert]= }
bindkey "^I" complete-word
print "<ready>"
'
zpty typed zsh -f -i
zpty -w typed "$setup"
# The setup itself is echoed until the terminal is told not to.
zpty -r typed text $'*\n<ready>*' || exit 1

integer number=0
for line in "$@"; do
	number+=1
	zpty -n -w typed "$line"$'\t'
	zpty -r typed text '*<end>*' || exit 1
	for word in ${(M)${(f)${text//$'\r'/}}:#*'<'*'>'*}; do
		word=${${word#*'<'}%'>'*}
		[[ $word == end ]] || print -r -- "$number:$word"
	done
	zpty -n -w typed $'\x15'
done
zpty -d typed
