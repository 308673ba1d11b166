#compdef ragflow-lg
# Completion of ragflow-lg for zsh. Load it after compinit with: source <(ragflow-lg completion zsh)
_ragflow_lg() {
    local line
    local -a values
    for line in "${(@f)$("${(Q)words[1]}" completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == ":files" ]]; then
            _files
            return
        fi
        [[ -n $line ]] && values+=("$line")
    done
    compadd -a values
}
compdef _ragflow_lg ragflow-lg
