# Completion of ragflow-lg for bash. Load it with: source <(ragflow-lg completion bash)
_ragflow_lg() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == ":files" ]]; then
            compopt -o default -o bashdefault
        else
            COMPREPLY+=("$line")
        fi
    done < <("$1" completion bash -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}
complete -F _ragflow_lg ragflow-lg
